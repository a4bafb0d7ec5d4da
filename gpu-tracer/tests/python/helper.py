"""Stands for an installed package."""


def call(launch, arguments):
    launch(*arguments)


def deep(depth, launch, arguments):
    if depth > 0:
        deep(depth - 1, launch, arguments)
    else:
        launch(*arguments)


def caller(launch):
    return lambda arguments: call(launch, arguments)


class Layer:
    def __call__(self, launch, arguments):
        self.forward(launch, arguments)

    def forward(self, launch, arguments):
        call(launch, arguments)

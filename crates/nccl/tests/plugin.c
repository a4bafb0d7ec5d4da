/* A library that needs NCCL, and that the program closes again. */
int ncclGroupStart(void);
int ncclGroupEnd(void);

int run(void) { return ncclGroupStart() + ncclGroupEnd(); }

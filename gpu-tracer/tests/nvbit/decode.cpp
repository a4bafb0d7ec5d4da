/* The real NVBit takes instructions apart, and nvbit/tool.cpp says which of them count, and as what. driver.c is
 * its driver.
 */
#include "tool.cpp"

#include <stdio.h>

/* Instructions from standard input, one in each line, as nvdisasm writes them. */
int main() {
    char line[256];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        access it = access_of(new Instr(line));
        printf("%d %u %u %d %d\n", it.is_one, it.kind, it.bytes, it.reference, it.blocks);
    }
    return 0;
}

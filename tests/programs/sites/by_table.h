/* A function whose unwind table, written by hand, has an expression that never ends; on other machines than x86-64 an ordinary one. */
#pragma once

#if defined(__x86_64__)
void by_table(void (*function)(void));
/* DW_CFA_def_cfa_expression with DW_OP_skip -3, which jumps to itself. */
__asm__(".text\n"
        ".globl by_table\n"
        ".type by_table, @function\n"
        "by_table:\n"
        ".cfi_startproc\n"
        ".cfi_escape 0x0f, 3, 0x2f, 0xfd, 0xff\n"
        "sub $8, %rsp\n"
        "call *%rdi\n"
        "add $8, %rsp\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size by_table, . - by_table\n");
#else
static void by_table(void (*function)(void)) { function(); }
#endif

/* A library whose constructor waits for a thread that copies: whoever loads it has the loader's lock meanwhile. */
void copy_in_thread(void);

__attribute__((constructor)) static void begin(void) { copy_in_thread(); }

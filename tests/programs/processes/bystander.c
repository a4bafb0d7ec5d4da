/* A library that is loaded while another one uses MPI, and unloaded afterwards. */
int bystander(void) {
    return 409;
}

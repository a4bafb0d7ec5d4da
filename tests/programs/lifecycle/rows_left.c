/* Ranks with many rows come to the end of MPI, and leave these beside their segments. Rank 0 waits until all others have,
 * and changes each name in them. Its argument is the folder of the segments. */
#define _GNU_SOURCE /* memmem */
#include "program.h"
#include "mpisee.h"
#include <dirent.h>
#include <stdint.h>
#include <unistd.h>

enum { COMMUNICATORS = 300, SIZES = 16, MOST_BYTES = 1 << 23 };

static const char NAME[] = "counted by its rank", CHANGED[] = "copied from its row";

static unsigned char content[MOST_BYTES];

/* Reads a file, which begins with the length of its head in a word. The head ends with the lengths of the tables, whose text
 * follows: each in groups of 7 bits, of which the last one is below 0x80. Returns the bytes of a file that is whole, or 0. */
static size_t read_whole(const char *path, size_t *text) {
    uint64_t head, tables = 0;
    FILE *file = fopen(path, "rb");
    size_t bytes = file ? fread(content, 1, MOST_BYTES, file) : 0;
    if (file) fclose(file);
    if (bytes < sizeof head) return 0;
    memcpy(&head, content, sizeof head);
    if (head > bytes - sizeof head) return 0;
    *text = sizeof head + head;
    for (size_t at = *text; tables < bytes - *text && at > sizeof head;) {
        uint64_t length = content[--at];
        while (at > sizeof head && content[at - 1] >= 0x80) length = length << 7 | (content[--at] & 0x7f);
        tables += length;
    }
    return tables == bytes - *text ? bytes : 0;
}

/* Changes the names in a text; returns how many there are. */
static size_t change_text(unsigned char *text, size_t bytes) {
    enum { LENGTH = sizeof NAME - 1 };
    size_t changed = 0;
    for (unsigned char *at = text; (at = memmem(at, text + bytes - at, NAME, LENGTH)); changed++) {
        memcpy(at, CHANGED, LENGTH);
    }
    return changed;
}

/* Changes the names in the files of rows that are whole; returns how many there are. */
static int change_names(const char *folder) {
    static char path[4096];
    int files = 0;
    DIR *all = opendir(folder);
    for (struct dirent *entry; all && (entry = readdir(all));) {
        const char *ending = strrchr(entry->d_name, '.');
        if (!ending || strcmp(ending, ".rows") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        size_t text, bytes = read_whole(path, &text);
        if (bytes == 0) continue;
        files++;
        if (change_text(content + text, bytes - text) == 0) continue;
        FILE *file = fopen(path, "r+b");
        EXPECT(file && fwrite(content, 1, bytes, file) == bytes && fclose(file) == 0);
    }
    if (all) closedir(all);
    return files;
}

int main(int argc, char **argv) {
    static MPI_Comm comms[COMMUNICATORS];
    static char data[1 << SIZES];
    begin(&argc, &argv);
    EXPECT(sizeof NAME == sizeof CHANGED);
    for (int i = 0; i < COMMUNICATORS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        mpisee_region_begin(NAME);
        for (int s = 0; s < SIZES; s++) MPI_Bcast(data, (1 << s) + i, MPI_BYTE, i % size, comms[i]);
        mpisee_region_end();
    }
    if (rank == 0 && argc > 1) {
        for (int looks = 0; change_names(argv[1]) < size - 1; looks++) {
            EXPECT(looks < 100000);
            usleep(1000);
        }
    }
    MPI_Finalize();
    return 0;
}

/*
 * Paths below a root, part by part and never through a symbolic link: what the job puts
 * in a path's way leads nowhere else.
 */
#ifndef SLUICE_STAGE_TREE_H
#define SLUICE_STAGE_TREE_H

#include <limits.h>
#include <sys/stat.h>

/* What a file is called at the destination until it is whole. */
#define TREE_PART ".sluice-part."

/* The directory that holds the path's last part, which *base gets; -1 with errno. */
int tree_parent (int root, const char *path, const char **base);
/* A directory itself, "" being the root, to be read; -1 with errno. */
int tree_directory (int root, const char *path);
/* As lstat. */
int tree_stat (int root, const char *path, struct stat *found);
/* Whether errno says that nothing is there. */
int tree_is_absent (int error);
/* The entries of a directory, the last one NULL; NULL with errno. See tree_free. */
char **tree_list (int root, const char *path);
void tree_free (char **entries);
/* directory/entry in new memory. */
char *tree_join (const char *directory, const char *entry);
/* Also of a name that leaves no room for more letters. */
void tree_part (const char *base, char part[NAME_MAX + 1]);
/* What is left of an earlier copy, if anything is. */
void tree_discard (int directory, const char *part);

#endif

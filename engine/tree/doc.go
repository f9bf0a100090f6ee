// Package tree walks, removes and writes folders that others have shaped: containers, images, archives and clients. It goes
// by descriptors, below an open folder that nothing leads out of. Walks and removals follow no link and resolve no path, so
// the depth of a tree and the length of its names cost neither descriptors nor time: both are linear in the number of entries,
// and a small constant of folders is open at a time. What is written spends a budget, which bounds what an archive implies.
// The package knows nothing of what the files are for.
package tree

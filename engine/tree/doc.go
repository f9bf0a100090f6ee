// Package tree writes folders that others have shaped: what archives, images and clients say is created by descriptors, below
// an open folder that nothing leads out of, and one budget bounds what that may cost. It knows nothing of what the files are
// for.
package tree

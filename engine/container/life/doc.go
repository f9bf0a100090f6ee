// Package life decides what becomes of a container: Step takes what happens to it and returns its next record and what is to be
// done. It has no locks, clock, files or goroutines, and knows nothing of who carries the actions out.
package life

// Package container holds what the engine knows of a container: what a client asked for, the checked form of it that
// cannot be wrong later (Spec), the record that is kept, and the states with the one table that changes them.
//
// It is pure: it reads no files, keeps no clock and starts nothing.
package container

// Package progress shows the messages of long operations: on a terminal each object has a line that is written over,
// elsewhere changes are told line by line. It changes no mode of the terminal, so that there is nothing to give back.
package progress

// Command moss is the engine's command line. It parses, calls the API and shows what came back; it knows no rule about
// containers, and it starts the engine itself when none answers at the default socket.
package main

import "os"

// The program's version and the commit it was built from; the build sets them by the linker (-X main.version=…).
var (
	version = "dev"
	commit  = ""
)

func main() {
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, lookup: os.LookupEnv}
	os.Exit(a.runArgs(os.Args[1:]))
}

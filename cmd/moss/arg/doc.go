// Package arg parses the values of command line flags into what the API carries. It reads no files but those a flag
// names, asks no engine, and leaves every rule that the engine checks itself to the engine.
package arg

// Command trees makes the trees that a hostile container makes: folders in each other far beyond what a path can name, and
// folders of many entries.
//
//	trees deep FOLDER LEVELS    folders in each other below FOLDER, each named d, with a file in the lowest
//	trees wide FOLDER ENTRIES   empty files in folders of a thousand below FOLDER
//	trees sleep FOLDER LEVELS   deep, and stays
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "trees:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("want a shape, a folder and a number, got %q", args)
	}
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	if err := os.MkdirAll(args[1], 0o755); err != nil {
		return err
	}
	switch args[0] {
	case "deep":
		return makeDeep(args[1], n)
	case "wide":
		return makeWide(args[1], n)
	case "sleep":
		if err := makeDeep(args[1], n); err != nil {
			return err
		}
		end := make(chan os.Signal, 1)
		signal.Notify(end, syscall.SIGTERM)
		_, err := os.Stdout.WriteString("made\n")
		<-end
		return err
	default:
		return fmt.Errorf("unknown shape %q", args[0])
	}
}

func makeDeep(folder string, levels int) error {
	if err := os.Chdir(folder); err != nil {
		return err
	}
	for range levels {
		if err := syscall.Mkdir("d", 0o755); err != nil {
			return err
		}
		if err := syscall.Chdir("d"); err != nil { // os.Chdir would look the path up
			return err
		}
	}
	fd, err := syscall.Open("bottom", syscall.O_CREAT|syscall.O_WRONLY|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	if _, err := syscall.Write(fd, []byte("bottom\n")); err != nil {
		return err
	}
	return syscall.Close(fd)
}

func makeWide(folder string, entries int) error {
	dir := ""
	for i := range entries {
		if i%1000 == 0 {
			dir = filepath.Join(folder, strconv.Itoa(i/1000))
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), []byte("x"), 0o644); err != nil { //nolint:gosec // an ordinary file
			return err
		}
	}
	return nil
}

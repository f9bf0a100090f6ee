// Command programs lists the programs that the tree's sources call on the machine where they are run.
//
//	programs [-top FOLDER] [-rules hack/programs.txt] [-for PURPOSE]
//
// It reads the Makefile, scripts of the shell and of bats, Go, Python and JavaScript. It prints a line per program and
// purpose, with tabs between: the purpose, the program, and where it is called. A module of Python is python3:NAME. What
// runs in containers is none of it, nor what only a run can tell, such as a program that a variable of the user names. It is a
// module of its own: nothing else needs the library that knows the shell's language.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "programs:", err)
		os.Exit(1)
	}
}

func run(args []string, w io.Writer) error {
	flags := flag.NewFlagSet("programs", flag.ContinueOnError)
	top := flags.String("top", ".", "folder of the sources")
	rulesFile := flags.String("rules", "", "file with the rules (hack/programs.txt of the sources)")
	purpose := flags.String("for", "", "only what is for this purpose")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *rulesFile == "" {
		*rulesFile = filepath.Join(*top, "hack", "programs.txt")
	}
	text, err := os.ReadFile(*rulesFile)
	if err != nil {
		return err
	}
	rules, err := parseRules(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", *rulesFile, err)
	}
	files, err := listFiles(*top)
	if err != nil {
		return err
	}
	r, err := readFiles(*top, files)
	if err != nil {
		return err
	}
	lines, err := rules.sortByPurpose(r)
	if err != nil {
		return fmt.Errorf("%s: %w", *rulesFile, err)
	}
	for _, line := range lines {
		if *purpose == "" || line.purpose == *purpose {
			if _, err := fmt.Fprintf(w, "%s\t%s\t%s\n", line.purpose, line.program, line.places); err != nil {
				return err
			}
		}
	}
	return nil
}

// listFiles returns the tree's files, those that are not yet committed too.
func listFiles(top string) ([]string, error) {
	cmd := exec.Command("git", "-C", top, "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list files: %w: %s", err, bytes.TrimSpace(complaint.Bytes()))
	}
	var files []string
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		if info, err := os.Lstat(filepath.Join(top, name)); err == nil && info.Mode().IsRegular() && !strings.Contains(name, "testdata/") {
			files = append(files, name)
		}
	}
	return files, nil
}

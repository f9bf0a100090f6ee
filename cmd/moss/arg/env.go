package arg

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxLine bounds a line of an env or label file, in bytes.
const maxLine = 1 << 20

// Lookup returns a variable of the caller's environment; os.LookupEnv is one.
type Lookup func(name string) (string, bool)

// Env reads one -e value: NAME=value, or NAME, which takes its value from the environment and is left out without one.
func Env(text string, lookup Lookup) (entry string, ok bool, err error) {
	name, _, assigned := strings.Cut(text, "=")
	if name == "" {
		return "", false, fmt.Errorf("variable %q has no name", text)
	}
	if strings.ContainsRune(text, 0) {
		return "", false, fmt.Errorf("variable %q holds a NUL byte", name)
	}
	if assigned {
		return text, true, nil
	}
	value, set := lookup(name)
	return name + "=" + value, set, nil
}

// EnvFile reads a file of -e values, one a line. Empty lines and lines that start with # are left out.
func EnvFile(path string, lookup Lookup) ([]string, error) {
	lines, err := readLines(path)
	if err != nil {
		return nil, err
	}
	entries := make([]string, 0, len(lines))
	for _, line := range lines {
		name, _, _ := strings.Cut(line.text, "=")
		if strings.ContainsFunc(name, unicode.IsSpace) {
			return nil, fmt.Errorf("%s:%d: variable %q holds white space", path, line.number, name)
		}
		entry, ok, err := Env(line.text, lookup)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, line.number, err)
		}
		if ok {
			entries = append(entries, entry)
		}
	}
	return entries, nil
}

// Labels adds one -l value, key or key=value, to labels.
func Labels(labels map[string]string, text string) error {
	key, value, _ := strings.Cut(text, "=")
	if key == "" {
		return fmt.Errorf("label %q has no key", text)
	}
	labels[key] = value
	return nil
}

// LabelFile adds a file of -l values, one a line, to labels.
func LabelFile(labels map[string]string, path string) error {
	lines, err := readLines(path)
	if err != nil {
		return err
	}
	for _, line := range lines {
		if err := Labels(labels, line.text); err != nil {
			return fmt.Errorf("%s:%d: %w", path, line.number, err)
		}
	}
	return nil
}

type line struct {
	number int
	text   string
}

func readLines(path string) ([]line, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	scanner := bufio.NewScanner(file)
	scanner.Buffer(make([]byte, 0, 4<<10), maxLine)
	var lines []line
	for number := 1; scanner.Scan(); number++ {
		text := strings.TrimLeftFunc(strings.TrimSuffix(scanner.Text(), "\r"), unicode.IsSpace)
		if number == 1 {
			text = strings.TrimPrefix(text, "\uFEFF")
		}
		if text == "" || text[0] == '#' {
			continue
		}
		if !utf8.ValidString(text) {
			return nil, fmt.Errorf("%s:%d: not UTF-8", path, number)
		}
		lines = append(lines, line{number: number, text: text})
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return lines, nil
}

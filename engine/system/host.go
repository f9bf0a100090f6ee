package system

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// maxHostFile bounds in bytes what is read of a file of the host.
const maxHostFile = 64 << 10

// memTotal returns the machine's memory in bytes.
func memTotal() (int64, error) {
	raw, err := readHostFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("read the machine's memory: %w", err)
	}
	total, ok := parseMemTotal(raw)
	if !ok {
		return 0, errors.New("read the machine's memory: no MemTotal in /proc/meminfo")
	}
	return total, nil
}

// parseMemTotal finds "MemTotal: 123 kB".
func parseMemTotal(raw []byte) (int64, bool) {
	for line := range bytes.Lines(raw) {
		fields := strings.Fields(string(line))
		if len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			n, err := strconv.ParseInt(fields[1], 10, 53)
			return n << 10, err == nil && n >= 0
		}
	}
	return 0, false
}

// distribution is that of the host.
type distribution struct{ name, version string }

// osRelease returns the host's distribution. Its name is "Linux" when it does not tell.
func osRelease() distribution {
	for _, path := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		raw, err := readHostFile(path)
		if err != nil {
			continue
		}
		if release := parseOSRelease(raw); release.name != "" {
			return release
		}
	}
	return distribution{name: "Linux"}
}

// parseOSRelease returns PRETTY_NAME, or NAME and VERSION, and VERSION_ID.
func parseOSRelease(raw []byte) distribution {
	values := map[string]string{}
	for line := range bytes.Lines(raw) {
		key, value, ok := strings.Cut(strings.TrimSpace(string(line)), "=")
		if ok && !strings.HasPrefix(key, "#") {
			values[key] = unquote(value)
		}
	}
	return distribution{
		name:    cmp.Or(values["PRETTY_NAME"], strings.TrimSpace(values["NAME"]+" "+values["VERSION"])),
		version: values["VERSION_ID"],
	}
}

// unquote takes a shell-like value apart as os-release files use it.
func unquote(s string) string {
	if len(s) < 2 || s[0] != '"' && s[0] != '\'' || s[len(s)-1] != s[0] {
		return s
	}
	quote, s := s[0], s[1:len(s)-1]
	if quote == '\'' {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// isOn reports whether a switch of the kernel is there and on.
func isOn(path string) bool {
	raw, err := readHostFile(path)
	return err == nil && strings.TrimSpace(string(raw)) == "1"
}

// openFiles returns how many file descriptors the engine holds, 0 when the kernel does not tell.
func openFiles() int {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0
	}
	defer dir.Close() //nolint:errcheck // Nothing was written.
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return 0
	}
	return len(names) - 1 // without the one that lists them
}

func readHostFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	return io.ReadAll(bufio.NewReader(io.LimitReader(f, maxHostFile)))
}

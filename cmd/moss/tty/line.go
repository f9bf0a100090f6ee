package tty

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// maxLine bounds a line, in bytes. The kernel's own bound for a line that is typed is lower.
const maxLine = 64 << 10

// Question is what a line is read for.
type Question struct {
	Out    io.Writer // what the text is written to
	Text   string
	Hidden bool // the terminal does not show the answer
}

// ReadLine asks and reads one line. A terminal is given back as it was, also when ctx ends; a goroutine that waits for the
// line is then left behind, so the command should end.
func ReadLine(ctx context.Context, file *os.File, question Question) (string, error) {
	if question.Hidden {
		raw, err := hideInput(file)
		if err != nil {
			return "", err
		}
		defer raw.Restore()
	}
	// Who sees the text may type: nothing is shown from here on.
	if _, err := io.WriteString(question.Out, question.Text); err != nil {
		return "", err
	}
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := readLine(file)
		done <- result{text: text, err: err}
	}()
	select {
	case got := <-done:
		return got.text, got.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// readLine reads up to the end of a line and nothing beyond it.
func readLine(in io.Reader) (string, error) {
	var line []byte
	one := make([]byte, 1)
	for len(line) < maxLine {
		n, err := in.Read(one)
		switch {
		case n == 1 && one[0] == '\n':
			return string(line), nil
		case n == 1 && one[0] != '\r':
			line = append(line, one[0])
		case errors.Is(err, io.EOF) && len(line) > 0:
			return string(line), nil
		case errors.Is(err, io.EOF):
			return "", errors.New("the input ended")
		case err != nil:
			return "", fmt.Errorf("read a line: %w", err)
		}
	}
	return "", fmt.Errorf("a line is longer than %d bytes", maxLine)
}

// hideInput makes a terminal show no input. Signals from its keys go on as before.
func hideInput(file *os.File) (*Raw, error) {
	state, err := term.GetState(int(file.Fd()))
	if err != nil {
		return nil, fmt.Errorf("ask for the terminal's mode: %w", err)
	}
	mode, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("ask for the terminal's mode: %w", err)
	}
	mode.Lflag &^= unix.ECHO
	mode.Lflag |= unix.ICANON | unix.ISIG
	mode.Iflag |= unix.ICRNL
	if err := unix.IoctlSetTermios(int(file.Fd()), unix.TCSETS, mode); err != nil {
		return nil, fmt.Errorf("hide the terminal's input: %w", err)
	}
	return &Raw{file: file, state: state}, nil
}

// Package tty is the command's own terminal: raw mode, which it always gives back, and its size. It knows nothing of
// containers.
package tty

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/term"
)

// Is reports whether a file is a terminal.
func Is(file *os.File) bool { return file != nil && term.IsTerminal(int(file.Fd())) }

// Raw is a terminal in raw mode. Restore must be called whatever happens in between.
type Raw struct {
	file *os.File

	mu    sync.Mutex // guards state
	state *term.State
}

// MakeRaw puts a terminal into raw mode.
func MakeRaw(file *os.File) (*Raw, error) {
	state, err := term.MakeRaw(int(file.Fd()))
	if err != nil {
		return nil, fmt.Errorf("set terminal to raw mode: %w", err)
	}
	return &Raw{file: file, state: state}, nil
}

// Restore gives the terminal back as it was. It may be called often and from several goroutines; the first call counts.
func (r *Raw) Restore() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == nil {
		return
	}
	// A terminal that is gone needs nothing back.
	_ = term.Restore(int(r.file.Fd()), r.state)
	r.state = nil
}

// Size returns a terminal's size in characters, zeros for anything else.
func Size(file *os.File) (height, width int) {
	if file == nil {
		return 0, 0
	}
	width, height, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0, 0
	}
	return height, width
}

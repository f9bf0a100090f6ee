package lifecycle

// moment is something to come that callers wait for. done is closed when it has come; code and err are set before.
type moment struct {
	done chan struct{}
	code int   // the exit code that is known then
	err  error // why it did not come about after all
	past bool
}

func newMoment() *moment { return &moment{done: make(chan struct{})} }

// complete lets those go on who wait. A moment comes once: a second call does nothing.
func (m *moment) complete(code int) {
	if !m.past {
		m.past, m.code = true, code
		close(m.done)
	}
}

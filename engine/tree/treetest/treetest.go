// Package treetest watches what tests of trees cost.
package treetest

import (
	"context"
	"os"
	"testing"
)

// Context notes how many files the process has open whenever it is asked whether it has ended, which is at each entry.
type Context struct {
	context.Context //nolint:containedctx // it is one itself
	t               testing.TB
	before          int
	most            int
}

// Watch returns a context of a test.
func Watch(t testing.TB) *Context {
	c := &Context{Context: t.Context(), t: t}
	c.before = c.countOpen()
	return c
}

func (c *Context) countOpen() int {
	c.t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		c.t.Error(err)
	}
	return len(names)
}

// Err is that of the test's own context.
func (c *Context) Err() error {
	c.most = max(c.most, c.countOpen())
	return c.Context.Err()
}

// Check fails the test if nobody asked the context, or if many files were open meanwhile.
func (c *Context) Check() {
	c.t.Helper()
	const few = 50
	if c.most == 0 || c.most > c.before+few {
		c.t.Errorf("%d files were open, %d before", c.most, c.before)
	}
}

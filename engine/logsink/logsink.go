// Package logsink has what the drivers of moss-log share: a record of a container's output, and a sender that brings records to
// a receiver (API document 1, 2.3: LogConfig). It links the standard library only; each driver is a package below.
package logsink

import (
	"context"
	"time"

	"moss/engine/stdio"
)

// Record is one line of a container's output, or a piece of a long one.
type Record struct {
	At     time.Time
	Stream stdio.Stream
	Text   []byte // without the newline; belongs to the caller of Send again once that has returned
	// LineID is the same for all pieces of a line, and another one for the next line of the container; 0: the line is whole.
	LineID  uint64
	Ordinal int  // of the piece, from 1; 0: the line is whole
	Last    bool // the piece is the line's last
}

// Container describes where records come from.
type Container struct {
	ID        string // 64 digits
	Name      string // without a slash
	ImageID   string // with its algorithm
	ImageName string // as the container was created with
	Command   string // with its arguments, separated by spaces
	Created   time.Time
	Host      string            // name of the machine
	Tag       string            // filled in; never empty
	Attrs     map[string]string // labels and variables that go with each record; may be nil
}

// Setup is what a sender is opened with.
type Setup struct {
	Container Container
	Options   map[string]string // of LogConfig, checked by package logdriver, with its defaults
	// Resume opens a sender for a container that runs already: the receiver may be away, and is not asked before the first Send.
	Resume bool
}

// Batch bounds what a sender is given at once. Zero fields are no bound.
type Batch struct {
	Records int           // at most
	Bytes   int           // of text, at most; one record may have more
	Linger  time.Duration // waited for more records after the first; 0: what is there goes at once
}

// Sender brings the records of one container to a receiver. It is used by one goroutine at a time.
type Sender interface {
	// Batch returns the bounds of Send. It always returns the same.
	Batch() Batch
	// Send returns how many records, from the first, the receiver has acknowledged; where its protocol has no acknowledgement,
	// how many the kernel took. With an error the others were not, or it is not known: the caller waits and sends them again,
	// in the same order. The error names the receiver's address and never a secret. Without an error a sender may leave records
	// at the end that belong together with those to come, unless all is set: they are given to it again with the next ones.
	// Send returns soon after the end of ctx.
	Send(ctx context.Context, records []Record, all bool) (n int, err error)
	// Close gives up the connection. It sends nothing.
	Close() error
}

// OpenFunc opens a sender. Unless Setup.Resume is set or the driver's options say otherwise, it asks the receiver: one that is
// not there, or refuses, is fault.Unavailable with its address. The caller closes the sender.
type OpenFunc func(ctx context.Context, s Setup) (Sender, error)

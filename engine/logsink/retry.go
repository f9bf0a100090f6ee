package logsink

import "time"

// Retrier is a sender whose options say how its caller goes on after an error of Send. A sender that is none leaves all of it
// to the caller.
type Retrier interface {
	// Retry returns the policy. It always returns the same.
	Retry() RetryPolicy
}

// RetryPolicy is how the caller of Send goes on after an error. What a zero field would say is the caller's to choose.
type RetryPolicy struct {
	First   time.Duration // wait after the first error
	Longest time.Duration // the waits grow up to this one
	// Tries is how many calls of Send in a row may fail without a record acknowledged. The caller then drops the records of the
	// last of them, counts them, and begins anew with the next ones. 0: nothing is dropped.
	Tries int
}

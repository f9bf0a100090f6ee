//go:build race

package client_test

// raceDetector says that the tests, and with them the shim that they build, watch for data races.
const raceDetector = true

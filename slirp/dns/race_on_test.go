//go:build race

package dns

// raceDetector says that the tests watch for data races, which takes memory.
const raceDetector = true

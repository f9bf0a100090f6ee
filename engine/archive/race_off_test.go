//go:build !race

package archive

// raceDetector says that the tests watch for data races, which takes memory.
const raceDetector = false

package fault

import "strings"

// maxText is how many bytes of an error's text clients and the log get. Containers make paths of any length.
const maxText = 8 << 10

// Text returns the text of an error as it leaves the engine: what is too long loses its middle, so that what was tried and
// why it did not work are still there.
func Text(err error) string { return Clip(err.Error()) }

// Clip is Text for a text that is no error's yet.
func Clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	const half = maxText / 2
	return strings.ToValidUTF8(text[:half], "") + " … " + strings.ToValidUTF8(text[len(text)-half:], "")
}

package stdio

import "unicode/utf8"

// WholeRunes returns the length of s without the bytes at its end that begin a rune but do not end it. What is not
// UTF-8 anyway stays.
func WholeRunes(s []byte) int {
	for back := 1; back < utf8.UTFMax && back <= len(s); back++ {
		i := len(s) - back
		if utf8.RuneStart(s[i]) {
			if s[i] >= utf8.RuneSelf && !utf8.FullRune(s[i:]) {
				return i
			}
			break
		}
	}
	return len(s)
}

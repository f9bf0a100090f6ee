package image

import (
	"strings"

	"moss/engine/fault"
)

// maxPlatform bounds a platform that a client names, in bytes.
const maxPlatform = 128

// CheckPlatform returns fault.Invalid for a text that is no os[/arch[/variant]]. Whether images are for it is another question.
func CheckPlatform(text string) error {
	parts := strings.Split(text, "/")
	bad := len(parts) > 3 || len(text) > maxPlatform
	for _, part := range parts {
		bad = bad || !isPlatformWord(part)
	}
	if bad {
		return fault.Invalid("%.128q is no platform: it must be os[/arch[/variant]]", text)
	}
	return nil
}

// isPlatformWord reports whether a text may be a part of a platform.
func isPlatformWord(s string) bool {
	word := strings.ToLower(s)
	return strings.Trim(word, ".-_") != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789_.-") == ""
}

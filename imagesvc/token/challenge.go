package token

import (
	"net/http"
	"strings"
)

// maxChallenges bounds what is read of one answer; registries offer one or two.
const maxChallenges = 32

// Challenge is one way in which a server wants to be told who asks (RFC 7235, 2.1).
type Challenge struct {
	Scheme  string            // in lower case: bearer, basic
	Params  map[string]string // by name in lower case; a scope that was given more than once is one list
	Token68 string            // what stands in the place of parameters for schemes such as Negotiate
}

// Challenges reads the WWW-Authenticate headers of an answer. What does not follow the grammar ends the reading of its
// header; challenges that were complete before it are kept.
func Challenges(header http.Header) []Challenge {
	var all []Challenge
	for _, value := range header.Values("WWW-Authenticate") {
		p := challengeParser{rest: value}
		for p.parseChallenge(&all) {
			if len(all) == maxChallenges {
				return all
			}
		}
	}
	return all
}

// Offer picks a challenge by its scheme, in lower case.
func Offer(all []Challenge, scheme string) (Challenge, bool) {
	for _, c := range all {
		if c.Scheme == scheme {
			return c, true
		}
	}
	return Challenge{}, false
}

// Scopes returns what the challenge says is needed, as one list (API document 3, 5.3).
func (c Challenge) Scopes() Scopes { return ParseScopes(c.Params["scope"]) }

// challengeParser reads #challenge of RFC 7235. The grammar is ambiguous by one token: after a comma comes either a
// further parameter, which has an equals sign after its name, or the next scheme.
type challengeParser struct{ rest string }

// parseChallenge appends one challenge to all, and returns false at the end or at the first thing that is none.
func (p *challengeParser) parseChallenge(all *[]Challenge) bool {
	p.skipChars(" \t,")
	scheme := p.parseToken()
	if scheme == "" {
		return false
	}
	c := Challenge{Scheme: strings.ToLower(scheme)}
	if !p.skipChars(" \t") {
		if p.rest != "" && p.rest[0] != ',' {
			return false
		}
		*all = append(*all, c)
		return true
	}
	if t, ok := p.parseToken68(); ok {
		c.Token68 = t
		*all = append(*all, c)
		return true
	}
	ok := p.parseParams(&c)
	if ok {
		*all = append(*all, c)
	}
	return ok
}

// parseParams reads parameters up to the end or to the next scheme. A broken one is an error.
func (p *challengeParser) parseParams(c *Challenge) bool {
	for {
		p.skipChars(" \t,")
		before := p.rest
		name := p.parseToken()
		p.skipChars(" \t")
		if name == "" || !strings.HasPrefix(p.rest, "=") {
			p.rest = before // the next scheme, or the end
			return before == "" || name != ""
		}
		p.rest = p.rest[1:]
		p.skipChars(" \t")
		value, ok := p.parseValue()
		if !ok {
			return false
		}
		c.setParam(strings.ToLower(name), value)
		p.skipChars(" \t")
		if p.rest != "" && p.rest[0] != ',' {
			return false
		}
	}
}

// setParam keeps the first value of a parameter, and all of scope.
func (c *Challenge) setParam(name, value string) {
	if c.Params == nil {
		c.Params = make(map[string]string)
	}
	old, had := c.Params[name]
	switch {
	case !had:
		c.Params[name] = value
	case name == "scope":
		c.Params[name] = old + " " + value
	}
}

func (p *challengeParser) parseValue() (string, bool) {
	if !strings.HasPrefix(p.rest, `"`) {
		v := p.parseToken()
		return v, v != ""
	}
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		switch p.rest[i] {
		case '"':
			p.rest = p.rest[i+1:]
			return b.String(), true
		case '\\':
			i++
			if i == len(p.rest) {
				return "", false
			}
		}
		b.WriteByte(p.rest[i])
	}
	return "", false
}

// parseToken68 reads one only if a comma or the end follows: otherwise it is the name of a parameter.
func (p *challengeParser) parseToken68() (string, bool) {
	body := strings.TrimLeftFunc(p.rest, func(r rune) bool { return r < 0x80 && isToken68(byte(r)) })
	n := len(p.rest) - len(body)
	end := strings.TrimLeft(body, "=")
	after := strings.TrimLeft(end, " \t")
	if n == 0 || (after != "" && after[0] != ',') {
		return "", false
	}
	t := p.rest[:len(p.rest)-len(end)]
	p.rest = after
	return t, true
}

func (p *challengeParser) parseToken() string {
	n := 0
	for n < len(p.rest) && isTokenChar(p.rest[n]) {
		n++
	}
	t := p.rest[:n]
	p.rest = p.rest[n:]
	return t
}

// skipChars leaves out any of chars, and tells whether there was one.
func (p *challengeParser) skipChars(chars string) bool {
	before := len(p.rest)
	p.rest = strings.TrimLeft(p.rest, chars)
	return len(p.rest) != before
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// isTokenChar is tchar of RFC 7230, 3.2.6.
func isTokenChar(c byte) bool {
	return isAlphanumeric(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

func isToken68(c byte) bool { return isAlphanumeric(c) || strings.IndexByte("-._~+/", c) >= 0 }

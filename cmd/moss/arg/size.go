package arg

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Bytes reads a size: a number, with a fraction if wanted, and b, k, m, g, t or p (powers of 1024), also written kb or kib.
func Bytes(text string) (int64, error) {
	cut := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	value, unit := text, ""
	if cut >= 0 {
		value, unit = text[:cut], strings.ToLower(strings.TrimSpace(text[cut:]))
	}
	number, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return 0, fmt.Errorf("size %q: want a number and b, k, m or g", text)
	}
	exponent, known := 0, unit == "" || unit == "b"
	if !known {
		unit = strings.TrimSuffix(strings.TrimSuffix(unit, "b"), "i")
		place := strings.Index("kmgtp", unit)
		exponent, known = 10*(place+1), len(unit) == 1 && place >= 0
	}
	if !known {
		return 0, fmt.Errorf("size %q: unknown unit %q; want b, k, m or g", text, unit)
	}
	size := math.Ldexp(number, exponent)
	if size >= math.MaxInt64 {
		return 0, fmt.Errorf("size %q is too large", text)
	}
	return int64(size), nil
}

// Swap reads a size or -1, which is unlimited.
func Swap(text string) (int64, error) {
	if text == "-1" {
		return -1, nil
	}
	return Bytes(text)
}

// CPUs reads a number of CPUs, such as 1.5, in billionths of one.
func CPUs(text string) (int64, error) {
	value, ok := new(big.Rat).SetString(text)
	if !ok || strings.ContainsAny(text, "/eE_xXpP") {
		return 0, fmt.Errorf("cpus %q: want a number such as 1.5", text)
	}
	nano := value.Mul(value, big.NewRat(1e9, 1))
	whole := new(big.Int).Quo(nano.Num(), nano.Denom())
	switch {
	case !whole.IsInt64() || whole.Int64() < 1e7: // the kernel takes quotas from 1 ms of 100 ms on
		return 0, fmt.Errorf("cpus %q: want a number from 0.01 on", text)
	case !nano.IsInt():
		return 0, fmt.Errorf("cpus %q: want nine digits after the point at most", text)
	}
	return whole.Int64(), nil
}

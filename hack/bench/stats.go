package main

import (
	"math"
	"slices"
)

// samples are the figures of one measurement, by name.
type samples map[string]float64

// series are all values of one figure, in the order they were measured.
type series []float64

// quantile returns the value that the share q of all values stays below; interpolated. It is NaN for no values.
func (s series) quantile(q float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

func (s series) median() float64 { return s.quantile(0.5) }

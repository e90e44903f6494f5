package endpoint

import (
	"crypto/rand"
	mathrand "math/rand/v2"
)

// CryptoRandom implements delivery.Random; ids come from the system's secure source.
type CryptoRandom struct{}

// ID returns 26 printable characters with 130 bits of randomness.
func (CryptoRandom) ID() string { return rand.Text() }

// Float64 returns a number in [0,1) for jitter.
func (CryptoRandom) Float64() float64 { return mathrand.Float64() }

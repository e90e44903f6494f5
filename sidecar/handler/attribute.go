package handler

import (
	"fmt"
	"strings"
)

// Attribute encodes the value of a CloudEvents attribute for an HTTP header, as the HTTP binding of CloudEvents 1.0 says
// (section 3.1.3.2): printable ASCII stays, and space, double quote, percent and all else become %XX of their UTF-8. The intake
// decodes the same way, so that an id arrives as it was meant, whatever it is made of.
func Attribute(value string) string {
	if !strings.ContainsFunc(value, func(r rune) bool { return !plain(r) }) {
		return value
	}
	var encoded strings.Builder
	for _, c := range []byte(value) {
		if plain(rune(c)) {
			encoded.WriteByte(c)
		} else {
			fmt.Fprintf(&encoded, "%%%02X", c)
		}
	}
	return encoded.String()
}

func plain(r rune) bool { return r > ' ' && r < 0x7f && r != '"' && r != '%' }

// Package identity tests the identity checks of the producer against a real API server, with real bound tokens and with no more
// rights than a producer has.
//
// The tests need the build tag integration.
package identity

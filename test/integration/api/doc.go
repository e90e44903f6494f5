// Package api tests the API against a real API server: what it accepts, refuses
// and defaults, the scale subresource, the category, and that every sample
// applies.
//
// The tests need the build tag integration.
package api

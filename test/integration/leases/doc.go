// Package leases tests the Leases of workers against a real API server: what the admission policy of an installation allows to real tokens of
// worker pods, and that of two processes of a pod one holds the Lease.
//
// The tests need the build tag integration.
package leases

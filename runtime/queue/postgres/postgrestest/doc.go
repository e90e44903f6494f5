// Package postgrestest runs real PostgreSQL servers for tests: Debian's binaries, a data directory of their own, loopback and a Unix
// socket, and an unprivileged user even where the test is root.
//
// Where no server is installed a test is skipped, with a message that says how to get one; where CI or
// WORKPULLING_REQUIRE_POSTGRES is set it fails instead. The path of the programs is found below /usr/lib/postgresql, or taken from
// WORKPULLING_POSTGRES_BIN.
//
// Invariants:
//   - A server ends with its test, by SIGINT (fast shutdown), and with its test process whatever ends that.
//   - Directories that a killed test left behind go with the next start.
//   - Servers keep fsync on, unless a test says otherwise: what they call committed is.
package postgrestest

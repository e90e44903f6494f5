// Package buf pins the Protobuf compiler.
package buf

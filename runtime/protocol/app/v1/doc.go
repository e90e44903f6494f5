// Package appv1 is the API between a worker's app and its sidecar: what `make proto` makes of app.proto, with nothing by hand but this.
//
// Invariants:
//   - It is older than the apps that use it: a field's number and meaning never change within version 1, and a removed number is reserved.
//   - Each side ignores fields and enum values that it does not know, and takes a missing field for its zero value.
//   - Nothing in it names a point in time: the clocks of a sidecar and of an app are not compared.
package appv1

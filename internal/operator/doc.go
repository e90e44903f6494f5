// Package operator puts the operator together: manager, caches, certificate authority, both reconcilers, and the server that producers
// report to.
//
// Invariants:
//   - The cache holds only what is ours: pods with our role, objects with our label, Secrets of our one name. Foreign objects cost
//     neither memory nor a permission.
//   - Reads through the cache wait for this process's own writes.
//   - The authority is loaded before the manager starts, on every replica; only the leader reconciles and listens for reports.
//   - An API server that does not answer when the operator starts is waited for, for less than its startup probe allows.
package operator

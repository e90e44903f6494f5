// Package flowtest runs whole flows over a WorkQueue of any kind: the real Controller, real Consumers and a submitting app, on a
// queue that is opened, closed and opened anew as processes come and go. It is what contract B.2, B.4 and B.14 mean by "the same
// everywhere": each back-end calls Run with its queuetest.Backend.
//
// The network is immediate and perfect and time is a number, so that a scenario is exact to the step; what is real is the queue.
// The rest of the contract's scenarios do not depend on the back-end and live with the machines (runtime/delivery).
package flowtest

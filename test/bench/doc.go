// Command bench measures this project, its peers and their bounds on one machine in one run, and prints a table with ratios. It is a module
// of its own, so that no peer becomes a dependency of the product.
//
//	go run . -list                                    the rows
//	go run . -only 'direct-memory/flood/256B/4w'      one of them
//	go run . -write ../../docs/performance.md         all of them, about forty minutes
//	go run . -only '^direct-local$' -backlogs 1000,10000000     over a backlog
//	go run . -only '^direct-local$' -soak 30m                   at a fixed rate, to see that memory stays flat
//
// A new system is one small file that implements trial.System, and a line in systems.go.
//
// Invariants: see package trial; peers whose server is not installed are skipped and named; a run that was judged wrong fails the command.
package main

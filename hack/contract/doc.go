// Command contract checks docs/contract.md, the table of everything that the contract asks for: that no id is missing, that each is
// shown by a test or decided otherwise, and that every test that is named exists, runs and passes. A test that is skipped shows nothing.
//
// A row is
//
//	| id | behaviour | shown by | remark |
//
// "Shown by" holds code spans, each a package and a test of it:
//
//	`runtime/delivery TestProducerCrashInTheHandshake/B-022*`      a subtest; * stands for any text
//	`runtime/queue/{memory,local} TestContract/*(B-041)*`          the same test of several packages
//	`test/e2e The main job/runs every job once and shows it` (e2e)  a Ginkgo spec
//
// Tests behind a build tag or in another module are not run from here; that they exist is checked, and the cell names the tag or
// says "own module" in brackets, so that a reader knows which suite runs them. A remark that begins with "Decided:" says that ours
// differs and why, and links to the decision. A cell that says "open" is work to be done, and fails the check.
package main

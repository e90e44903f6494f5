package main

import (
	"fmt"
	"strings"

	"github.com/workpulling/workpulling/sidecar/intake"
)

const problemsIntro = `# Problems

Generated from the code by ` + "`make docs`" + `. Every error of the intake is a problem (RFC 9457, ` + "`application/problem+json`" + `), also where one job
of a batch or a stream has it:

| member | |
|---|---|
| ` + "`type`" + ` | a URI of the table below; it never changes its meaning, so it is what programs compare. There is nothing to fetch under it |
| ` + "`status`" + `, ` + "`title`" + `, ` + "`detail`" + ` | for people; the texts may change |
| ` + "`instance`" + ` | the path of the job where it is stored, or the name under which the log tells more |
| ` + "`id`, `sequence`" + ` | the job, where it is stored and its end was waited for |
| ` + "`retryAfterSeconds`" + ` | what the header ` + "`Retry-After`" + ` says, for one job of many |

What is no HTTP at all, such as a broken request line or headers of more than 64 KiB, never gets as far and has a plain text.

| type: ` + "`" + intake.ProblemBase + "…`" + ` | status | title | meaning |
|---|---|---|---|
`

// problemsPage has a row for every kind of problem.
func problemsPage() string {
	var page strings.Builder
	page.WriteString(problemsIntro)
	for _, k := range intake.Problems() {
		fmt.Fprintf(&page, "| `%s` | %d | %s | %s |\n", k.Slug, k.Status, cell(k.Title), cell(k.Help))
	}
	return page.String()
}

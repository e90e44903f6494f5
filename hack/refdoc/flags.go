package main

import (
	"flag"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/workpulling/workpulling/internal/operator"
)

const flagsIntro = `# Flags of the operator

Generated from the code by ` + "`make docs`" + `. The chart sets several of them, and passes its value ` + "`extraArgs`" + ` after those: of a flag
that is given twice the last one counts. The roles of the chart name the objects of ` + "`--ca-secret`, `--leader-election-id` and\n`--token-reviewer-cluster-role`" + `, so these three cannot be changed without them.

| flag | default | meaning |
|---|---|---|
`

// flagsPage is a page with a table of the flags of the operator's command.
func flagsPage() string {
	var page strings.Builder
	page.WriteString(flagsIntro)
	options := operator.Defaults()
	operator.Flags(&options, &zap.Options{}).VisitAll(func(f *flag.Flag) {
		value := ""
		if f.DefValue != "" {
			value = "`" + f.DefValue + "`"
		}
		_, usage := flag.UnquoteUsage(f)
		fmt.Fprintf(&page, "| `--%s` | %s | %s |\n", f.Name, value, cell(oneLine(usage)))
	})
	return page.String()
}

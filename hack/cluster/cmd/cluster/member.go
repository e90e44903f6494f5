package main

import (
	"github.com/spf13/cobra"

	"github.com/workpulling/workpulling/hack/cluster/internal/member"
)

// newMemberCommand is what "cluster up" runs as first process of the control plane and of each node.
func newMemberCommand() *cobra.Command {
	return &cobra.Command{
		Use:    member.Command,
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(*cobra.Command, []string) error { return member.Run() },
	}
}

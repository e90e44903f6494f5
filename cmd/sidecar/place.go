package main

import (
	"context"
	"net"

	"github.com/spf13/cobra"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// place is where this process runs: a pod, unless flags say that it is a process of the host.
type place struct {
	runtimeconfig.Place
	dns string
}

// placeFlags defines the flags of a place. They are hidden, for a pod needs none of them.
func placeFlags(command *cobra.Command) *place {
	p, flags := &place{}, command.PersistentFlags()
	flags.StringVar(&p.Root, "root", "", "outside a pod: the directory below which all paths lie")
	flags.StringVar(&p.Host, "host", "", "outside a pod: the address to listen on and to find the app at")
	flags.StringVar(&p.dns, "dns", "", "outside a pod: host:port of the only name server to ask")
	for _, name := range []string{"root", "host", "dns"} {
		if err := flags.MarkHidden(name); err != nil {
			panic(err) // a name above is misspelt
		}
	}
	return p
}

// resolve makes this process ask the name server of its place.
func (p *place) resolve() {
	if p.dns == "" {
		return
	}
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, p.dns)
	}}
}

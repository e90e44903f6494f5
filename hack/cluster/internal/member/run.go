package member

import (
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
)

// Run is the life of the first process in a member's namespaces. It returns only with an error.
func Run() error {
	pipe := os.NewFile(configFD, "configuration")
	if os.Getpid() != 1 || pipe == nil {
		return fmt.Errorf("this command is for \"cluster up\" only")
	}
	c, err := receive(pipe)
	if err != nil {
		return err
	}
	pipe.Close()
	log.SetPrefix(c.Hostname + ": ")
	if err := prepare(c); err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	ordered := make(chan os.Signal, 1)
	signal.Notify(ordered, orderSignal)
	s := newSupervisor(c.LogDir)
	go s.reap()
	go func() {
		for range ordered {
			orders, err := LoadOrders(c.Orders)
			if err != nil {
				log.Print(err) // they are as they were
				continue
			}
			s.obey(orders)
		}
	}()
	for _, component := range c.Components {
		go s.keep(component)
	}
	return fmt.Errorf("ended by signal %s", <-stop) // and with this process all others of the namespace
}

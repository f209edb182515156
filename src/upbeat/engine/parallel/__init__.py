"""Several cores: operations, how long they take, and who does what when."""

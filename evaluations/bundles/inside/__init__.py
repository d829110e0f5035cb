"""What runs inside the sandbox: `confine` puts the walls up, `calling` meets the function, `serving` scores with it."""

"""Which addresses of the internet are public: everybody's to ask, and no way into the network of this machine. Pure."""

from ipaddress import ip_address, ip_network

# The only range from which public IPv6 addresses are given out. What stands for an IPv4 address lies outside of it, but
# for 6to4 and Teredo.
UNICAST_V6 = ip_network("2000::/3")

# What Python, or some of its versions, takes for public and is not, or leads elsewhere.
REFUSED = [
    ip_network(network)
    for network in (
        "168.63.129.16/32",  # a cloud's own services, seen from its machines
        "192.0.0.0/24",  # special purposes, among them another cloud's
        "192.88.99.0/24",  # relays to IPv6
        "2001::/23",  # Teredo and other special purposes
        "2002::/16",  # 6to4
        "3fff::/20",  # for documents
    )
]


def is_public(address: str) -> bool:
    """Whether a numeric address, in its usual form, is public; any other text is not."""
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    if ip.version == 6 and ip not in UNICAST_V6:
        return False
    refused = ip.is_multicast or ip.is_reserved or any(ip in network for network in REFUSED)
    return ip.is_global and not refused
